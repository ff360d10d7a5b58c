"""A certification: engines and actors in processes of their own, round after round, and the statement at the end.

The parent that runs here never imports torch.  ``docs/architecture.md`` draws the picture.
"""
