"""What is special to one trade, each on the public interface alone."""
