"""What a keeper holds and how it answers: tree, sessions, watches, ACLs, request stages. Pure: no I/O, no clock."""
