"""Documents as HTML without a script or an address that is loaded, as markdown, and as JSON."""
