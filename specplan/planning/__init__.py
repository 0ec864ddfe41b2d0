"""From a question to an answer: plan, compare, advise, sweep, deadlines, prices, explanations, validation."""
