"""What a user writes: streams, operators, capabilities, notifications, loops, inputs and outputs."""
