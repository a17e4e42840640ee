"""What the black-box tests share: a server under test and clients that share no code with it."""
