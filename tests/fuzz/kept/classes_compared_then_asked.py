"""3.13 lets the operands of a comparison go before it asks the result for its truth; so with `is` and both of its operands."""

if Thing() < None:
    pass
not Thing() > 1.5
Thing(1) is Thing(2)
Thing(1) is not Thing(2)
