"""The account of a run as a page that needs nothing else: see page.py."""
