"""Choice of the tokens that a smaller vocabulary keeps, and of the nearest one for each of the others."""
