"""The parts that each process of Holdfast shares, below tools, agents and workflows."""
