def page(folder): return "<html></html>"
