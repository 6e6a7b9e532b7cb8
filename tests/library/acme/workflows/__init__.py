"""The company's workflows."""
