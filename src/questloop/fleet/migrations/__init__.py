"""Alembic migrations of the fleet's database."""
