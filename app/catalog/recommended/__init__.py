"""Models that are worth fetching, and facts about those that are here, for first choices."""
