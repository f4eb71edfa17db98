"""CAS mode: claiming the next number, meeting others, settling what both touched, prepared claims."""
