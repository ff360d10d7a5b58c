"""The rules of the oracle, a file each: from what was measured and the recipe to named checks."""
