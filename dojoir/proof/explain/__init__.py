"""The words of a refusal: example iterations, and facts that would mend an error."""
