"""Language models behind one method, `ask`: chat completions of OpenAI and servers compatible with them, messages
of Anthropic, and a model that draws; with retries, budgets, and a record of every exchange."""
