"""Everything that speaks HTTP, apart from downloads (`models.library.hub`). Nothing below it may open a connection."""
