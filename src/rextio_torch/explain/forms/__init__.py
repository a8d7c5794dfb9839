"""The table of forms that keep a function on Python, one row a form."""
