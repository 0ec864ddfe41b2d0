"""Hugging Face configs: fields, families and quantization dialects in, one `ModelSpec` out."""
