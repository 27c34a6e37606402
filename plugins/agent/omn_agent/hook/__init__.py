"""What a harness's hooks run: a client that hands one event to the recorder, compiled where a compiler was."""
