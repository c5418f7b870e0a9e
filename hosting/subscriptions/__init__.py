"""Subscriptions: delivery of streams to consumers, each at its own pace."""
