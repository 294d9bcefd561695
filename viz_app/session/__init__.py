"""What one browser's session looks at, what is kept between its reruns, and how it is answered live."""
