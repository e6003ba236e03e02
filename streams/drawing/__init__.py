"""Pictures of a topology: the same graph as Mermaid text or as SVG, without a drawing tool."""
