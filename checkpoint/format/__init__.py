"""Bytes of what is stored: values and code to bytes and back, digests of both, and the envelope around every blob."""
