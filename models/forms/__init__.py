"""Forms of answers: schemas and grammars, compiled under limits and followed token by token."""
