"""Edges of an evaluator: ingress strips sequence ids, egress gives them; replay buffers and sink writers."""
