"""Sphinx reads this; `make docs` (scripts/site) puts the sources together and calls it."""

project = "Netloom"
author = "The Netloom authors"
copyright = author
html_title = "Netloom"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["netloom.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#204a87", "color-brand-content": "#204a87"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f0", "color-brand-content": "#8ab4f0"},
}

extensions = ["myst_parser", "scripts.site.mathml"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "deflist", "attrs_block", "colon_fence"]
myst_heading_anchors = 4
highlight_language = "text"
nitpicky = True
