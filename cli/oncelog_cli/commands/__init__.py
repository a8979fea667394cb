"""One file per noun, or per verb that has much to say; imported when used."""
