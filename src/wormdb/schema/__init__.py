"""Models, the path language and the layout: what a collection is and where it lies; no I/O."""
