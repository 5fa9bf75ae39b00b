"""The entry point of Alembic; `Database.migrate` hands the connection over."""

from alembic import context

from questloop.fleet.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
