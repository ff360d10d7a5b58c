"""Images of rows: built with the user's Docker, recorded by digest, and started without network, keys or write access.

Only this room talks to Docker.  docs/containers.md says how it is used, docs/rows.md what a row pins.
"""
