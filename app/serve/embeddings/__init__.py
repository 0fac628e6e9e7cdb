"""`/v1/embeddings`: a second, small model that turns texts into vectors."""
