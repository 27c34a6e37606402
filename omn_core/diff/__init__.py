"""What two sides of stored runs differ by, and how sure that is: plain values in, one comparison out, no numpy."""
