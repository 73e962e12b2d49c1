"""Layered drawing of directed acyclic graphs: see layered.py."""
