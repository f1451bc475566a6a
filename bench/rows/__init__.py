"""The rows of the table: each measures one promise. A row never prints and never knows the others."""
