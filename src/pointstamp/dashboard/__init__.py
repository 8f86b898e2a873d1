"""What people see of a running or a recorded flow."""
