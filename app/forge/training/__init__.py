"""Training of heads with torch, and the closed form that it begins with."""
