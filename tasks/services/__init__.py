"""The services that `desk up` embeds, and the supervision that starts and ends them."""
