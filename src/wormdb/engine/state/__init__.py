"""What is true at a log number: views, definitions, lives of indexes and jobs. Values, hardly any I/O."""
