"""Everything that speaks HTTP, apart from downloads (`models.hub`). Nothing below it may open a connection."""
