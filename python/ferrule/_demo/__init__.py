"""The inside of `ferrule.demo_server`: standard library only, nothing of the client."""
