"""What a device is: its profile, where profiles are found, what is checked, engines, measured curves."""
