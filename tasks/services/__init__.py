"""The services that `desk up` and `desk demo` embed, and the supervision that starts and ends them."""
