"""A checker in the manner of Jepsen: clients of a service that is being broken, and the laws that what they saw must keep."""
