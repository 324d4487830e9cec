"""Policy, freshness, compatibility, manifests; pure."""
