"""The chat screen: the app, its engine link, its commands and dialogs."""
