"""The pages: each a short function from what the sidebar returns to what is on the screen."""
