"""What the error says of a class pattern without a class depends on the version."""

match 1:
    case name_2():
        pass
