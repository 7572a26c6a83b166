"""What readable files hold and what they are called. No I/O."""
