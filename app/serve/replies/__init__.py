"""Writers of replies: text, figures, streams and errors in the protocols' forms."""
