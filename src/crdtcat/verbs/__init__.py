"""What can be done to a table: functions over a session, each of which publishes one version."""
