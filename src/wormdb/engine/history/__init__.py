"""Every version of every document, and what the trash keeps."""
