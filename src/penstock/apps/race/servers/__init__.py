"""The runners as processes: found or installed, started on one CPU, ended. Never measured from in here."""
